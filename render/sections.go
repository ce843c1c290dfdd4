package render

// sectionFuncs is the page, in order.
var sectionFuncs = []func(*Report) (Section, bool){
	firstScreen,
	dipsSection,
	timeLineSection,
	stepsSection,
	ledgerSection,
	checklistSection,
	ranksSection,
	kernelsSection,
	collectivesSection,
	summarySection,
	copiesSection,
	hardwareSection,
	captureSection,
	inputsSection,
}

// Sections draws the report as sections made of blocks; it is the last place where anything is summed.
func Sections(r *Report) []Section {
	var out []Section
	for _, f := range sectionFuncs {
		if s, ok := f(r); ok {
			out = append(out, s)
		}
	}
	return out
}

// Footer is the page's last line: how exactly the ledgers close, and which program wrote it.
func Footer(r *Report) string {
	if len(r.Ledger) == 0 {
		return "No ledger. gpureport " + r.Tool.Version
	}
	return "Owners minus windows, over all ledgers and steps: " + Count(r.SumErrorNS) + nbsp + "ns. gpureport " + r.Tool.Version
}
