// Command manifest checks Kubernetes manifests against the schema that Kubernetes itself publishes, and against its Go types, in which an
// unknown or misspelt field is an error. It is a module of its own: the program does not depend on any of it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/yaml"
)

func main() {
	bad := 0
	for _, name := range os.Args[1:] {
		text, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for i, doc := range bytes.Split(text, []byte("\n---\n")) {
			errs := check(doc)
			for _, err := range errs {
				fmt.Fprintf(os.Stderr, "%s: document %d: %v\n", name, i+1, err)
			}
			if bad += len(errs); len(errs) == 0 {
				fmt.Printf("%s: document %d: a valid batch/v1 Job\n", name, i+1)
			}
		}
	}
	if bad > 0 || len(os.Args) < 2 {
		os.Exit(1)
	}
}

func check(doc []byte) (errs []error) {
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(doc, &job); err != nil {
		return []error{err}
	}
	if job.APIVersion != "batch/v1" || job.Kind != "Job" {
		return []error{fmt.Errorf("%s %s: only batch/v1 Job is known here", job.APIVersion, job.Kind)}
	}
	schema, err := jobSchema()
	if err != nil {
		return []error{err}
	}
	var data any
	if err := yaml.Unmarshal(doc, &data); err != nil {
		return []error{err}
	}
	if err := schema.Validate(data); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// jobSchema is the published schema of a Job, with what it refers to.
func jobSchema() (*jsonschema.Schema, error) {
	text, err := json.Marshal(map[string]any{"$schema": "http://json-schema.org/draft-04/schema#", "definitions": openapi.Schema().Definitions,
		"$ref": "#/definitions/io.k8s.api.batch.v1.Job"})
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("job.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("job.json")
}
