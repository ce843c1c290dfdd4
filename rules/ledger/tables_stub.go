package ledger

// Tables are the data files of rules/tables, compiled.
type Tables struct{}
