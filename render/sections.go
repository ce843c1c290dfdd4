package render

// sectionFuncs is the page, in order.
var sectionFuncs = []func(*Report) (Section, bool){
	firstScreen,
	dipsSection,
	timeLineSection,
	ledgerSection,
	checklistSection,
	kernelsSection,
	collectivesSection,
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
