package timeline

// Strings interns texts; StringID 0 is "". The zero value is ready for use. Not safe for concurrent use.
type Strings struct {
	list []string
	ids  map[string]StringID
}

// ID interns b and gives its id; it allocates only for a text not seen before.
func (s *Strings) ID(b []byte) StringID {
	if len(b) == 0 {
		return 0
	}
	if id, ok := s.ids[string(b)]; ok {
		return id
	}
	return s.add(string(b))
}

// IDOf interns a string.
func (s *Strings) IDOf(t string) StringID {
	if t == "" {
		return 0
	}
	if id, ok := s.ids[t]; ok {
		return id
	}
	return s.add(t)
}

func (s *Strings) add(t string) StringID {
	if s.ids == nil {
		s.ids = make(map[string]StringID)
		s.list = append(s.list, "")
	}
	id := StringID(len(s.list))
	s.list = append(s.list, t)
	s.ids[t] = id
	return id
}

// Get gives the text of id; "" for 0 and for an id never given out.
func (s *Strings) Get(id StringID) string {
	if int(id) >= len(s.list) {
		return ""
	}
	return s.list[id]
}

// Len is the number of ids given out, "" included.
func (s *Strings) Len() int { return max(len(s.list), 1) }
