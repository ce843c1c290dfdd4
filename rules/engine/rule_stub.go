package engine

// Rule is one loaded rule file.
type Rule struct {
	ID    string
	Stage string
	Title string
}
