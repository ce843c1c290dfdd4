package engine

import (
	"encoding/json"

	"gpureport/rules/facts"
)

// Schema is a JSON schema of a rule file, for editors. What it cannot say (units, names inside conditions, the path) Load checks.
func Schema(decls []*facts.Decl) []byte {
	type m = map[string]any
	text := m{"type": "string", "minLength": 1}
	texts := m{"type": "array", "items": text}
	number := m{"type": "number"}
	enum := func(s ...string) m { return m{"type": "string", "enum": s} }
	object := func(props m, required ...string) m {
		o := m{"type": "object", "properties": props, "additionalProperties": false}
		if len(required) > 0 {
			o["required"] = required
		}
		return o
	}
	values := m{}
	for _, d := range decls {
		values[string(d.ID)] = m{"type": []string{"number", "boolean", "string"}, "description": d.Doc}
	}
	limit := object(m{"value": number, "unit": enum(limitUnits...), "source": text}, "value", "unit", "source")
	where := m{"type": "object", "minProperties": 1, "additionalProperties": texts}
	do := m{"anyOf": []m{text, object(m{"say": text, "gates": texts, "capture": text, "where": where, "lacks": texts}, "say")}}
	props := m{
		"id": m{"type": "string", "pattern": idForm.String()}, "title": text,
		"per": enum("run", "host", "rank", "gpu"), "class": enum(ruleClasses...),
		"when": text, "finding_if": text,
		"limits": m{"type": "object", "propertyNames": m{"pattern": limitForm.String()}, "additionalProperties": limit},
		"saving": text, "severity": enum(severities...), "confidence": enum(confidences...),
		"says": text, "says_pass": text, "says_not_asked": text, "do": m{"type": "array", "items": do}, "dont": texts, "gates": texts, "looks_like": text,
		"overlaps": texts, "covers": m{"type": "array", "items": enum(owners...)},
		"cases": m{"type": "array", "items": object(m{"facts": object(values), "want": enum("finding", "pass", "unknown", "not-asked"),
			"saving": number, "severity": enum(severities...)}, "facts", "want")},
	}
	root := object(props, "id", "title", "per", "finding_if", "confidence", "says")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "gpureport rule"
	root["anyOf"] = []m{{"required": []string{"saving"}}, {"required": []string{"severity"}}}
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // plain maps of texts and numbers
	}
	return append(b, '\n')
}
