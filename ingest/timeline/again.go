package timeline

// Lead is the mark that stands for the event of mark i: i itself, or where another source shows the same event better, that one's mark.
// An event counts once, at its lead; the rows of all its marks are evidence.
func (tl *Timeline) Lead(i int) int {
	if i < len(tl.Again) && tl.Again[i] >= 0 {
		return int(tl.Again[i])
	}
	return i
}
