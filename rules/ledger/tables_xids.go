package ledger

import "sort"

// Xid is one number of the driver's kernel log.
type Xid struct {
	Code  int32
	Kind  string // ignore, app, note, reset, restart, vendor, memory, nvlink
	Means string
	Act   string // what it calls for
}

// Hardware tells whether the number speaks of broken hardware or firmware.
func (x *Xid) Hardware() bool {
	return x.Kind != "ignore" && x.Kind != "app" && x.Kind != "note" && x.Kind != XidUnlisted
}

// XidUnlisted is the kind of a number that no row has.
const XidUnlisted = "unlisted"

var xidKinds = map[string]bool{"ignore": true, "app": true, "note": true, "reset": true, "restart": true, "vendor": true, "memory": true, "nvlink": true}

// Xid gives the row of a number; one that is not listed has kind unlisted.
func (t *Tables) Xid(code int32) Xid {
	i := sort.Search(len(t.Xids), func(i int) bool { return t.Xids[i].Code >= code })
	if i < len(t.Xids) && t.Xids[i].Code == code {
		return t.Xids[i]
	}
	return Xid{Code: code, Kind: XidUnlisted, Means: "not in the table", Act: "look it up in the maker's Xid catalog"}
}

func (l *loader) xids(t *Tables) {
	const file = "xids.yaml"
	type row struct {
		Code  int32  `yaml:"code"`
		Kind  string `yaml:"kind"`
		Means string `yaml:"means"`
		Act   string `yaml:"act"`
	}
	var raw struct {
		Xids []at[row] `yaml:"xids"`
	}
	l.read(file, &raw)
	seen := map[int32]bool{}
	for _, r := range raw.Xids {
		x := Xid(r.V)
		switch {
		case x.Code <= 0 || x.Means == "" || x.Act == "":
			l.fail(file, r.Line, "an Xid needs a code, what it means and what it calls for")
		case !xidKinds[x.Kind]:
			l.fail(file, r.Line, "unknown kind %q of Xid %d: one of ignore app note reset restart vendor memory nvlink", x.Kind, x.Code)
		case seen[x.Code]:
			l.fail(file, r.Line, "Xid %d is listed twice", x.Code)
		}
		seen[x.Code] = true
		t.Xids = append(t.Xids, x)
	}
	sort.Slice(t.Xids, func(i, j int) bool { return t.Xids[i].Code < t.Xids[j].Code })
}
