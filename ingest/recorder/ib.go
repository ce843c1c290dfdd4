package recorder

import "strings"

// ibCounters are the error counters that are kept, in both folders of counters.
var ibCounters = map[string][]string{
	"counters": {"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards", "local_link_integrity_errors", "excessive_buffer_overrun_errors"},
	"hw_counters": {"out_of_buffer", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "out_of_sequence", "np_cnp_sent", "rp_cnp_handled",
		"np_ecn_marked_roce_packets", "roce_slow_restart", "roce_adp_retrans"},
}

// infiniband appends a record a port. Bytes are the counters of four-byte words times four. all adds state, rate and errors.
func (h *host) infiniband(l *lines, t int64, all bool) {
	for _, dev := range h.names(h.sys, "class/infiniband") {
		for _, port := range h.list(h.sys, "class/infiniband/"+dev+"/ports", "") {
			dir := "class/infiniband/" + dev + "/ports/" + port
			l.begin("ib", t)
			l.text("dev", dev)
			l.num("port", parseInt([]byte(port)))
			l.open("x", '{')
			for _, c := range []string{"port_xmit_data", "port_rcv_data"} {
				if v := h.number(h.sys, dir+"/counters/"+c); v != none && v <= 1<<61 {
					l.num(c, v*4)
				}
			}
			l.some("port_xmit_wait", h.number(h.sys, dir+"/counters/port_xmit_wait"))
			if all {
				for _, folder := range []string{"counters", "hw_counters"} {
					for _, c := range ibCounters[folder] {
						l.some(c, h.number(h.sys, dir+"/"+folder+"/"+c))
					}
				}
			}
			l.shut('}')
			if all {
				l.text("rate", h.text(h.sys, dir+"/rate"))
				l.text("st", afterColon(h.text(h.sys, dir+"/state")))
				l.text("ph", afterColon(h.text(h.sys, dir+"/phys_state")))
				l.text("layer", h.text(h.sys, dir+"/link_layer"))
			}
			l.end()
		}
	}
}

// afterColon gives ACTIVE of "4: ACTIVE".
func afterColon(s string) string {
	if _, rest, ok := strings.Cut(s, ": "); ok {
		return rest
	}
	return s
}
