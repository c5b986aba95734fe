// Command manifests reads Kubernetes manifests as strictly as an API server with strict field validation does: into the
// types of the API, where a field that does not exist, or occurs twice, is an error. Then it asks what a schema cannot:
// whether the parts of an indexed job that find each other by name fit together. It is a module of its own, so that
// gorun needs none of those types.
//
//	manifests FILE...
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

func main() {
	failed := false
	for _, name := range os.Args[1:] {
		if err := check(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// manifest is what one file holds.
type manifest struct {
	jobs     []batchv1.Job
	services []corev1.Service
	secrets  []corev1.Secret
}

// check reads all documents of a file.
func check(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var m manifest
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return m.fits()
		}
		if err == nil {
			err = m.add(document)
		}
		if err != nil {
			return err
		}
	}
}

// add reads one document.
func (m *manifest) add(document []byte) error {
	var kind metav1.TypeMeta
	if err := strict.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "batch/v1 Job":
		return add(&m.jobs, document)
	case "v1 Service":
		return add(&m.services, document)
	case "v1 Secret":
		return add(&m.secrets, document)
	}
	return fmt.Errorf("apiVersion %q, kind %q: this check does not know such objects", kind.APIVersion, kind.Kind)
}

func add[T any](all *[]T, document []byte) error {
	var object T
	if err := strict.UnmarshalStrict(document, &object); err != nil {
		return fmt.Errorf("%T: %w", object, err)
	}
	*all = append(*all, object)
	return nil
}

// fits checks each job against the service that gives its pods their names.
func (m *manifest) fits() error {
	if len(m.jobs) == 0 {
		return errors.New("there is no job")
	}
	for i := range m.jobs {
		if err := m.fitsJob(&m.jobs[i]); err != nil {
			return fmt.Errorf("job %s: %w", m.jobs[i].Name, err)
		}
	}
	return nil
}

func (m *manifest) fitsJob(job *batchv1.Job) error {
	spec, pod := &job.Spec, &job.Spec.Template.Spec
	for _, problem := range validation.IsDNS1123Label(job.Name) {
		return errors.New(problem)
	}
	switch {
	case spec.CompletionMode == nil || *spec.CompletionMode != batchv1.IndexedCompletion:
		return errors.New("completionMode is not Indexed")
	case spec.Completions == nil || spec.Parallelism == nil || *spec.Completions != *spec.Parallelism:
		return errors.New("completions and parallelism differ: all nodes have to run at once")
	case pod.RestartPolicy != corev1.RestartPolicyNever && pod.RestartPolicy != corev1.RestartPolicyOnFailure:
		return fmt.Errorf("restartPolicy %q: jobs take Never and OnFailure", pod.RestartPolicy)
	}
	service, err := m.service(pod.Subdomain)
	switch {
	case err != nil:
		return err
	case service.Spec.ClusterIP != corev1.ClusterIPNone:
		return fmt.Errorf("service %s is not headless", service.Name)
	case service.Spec.Selector["batch.kubernetes.io/job-name"] != job.Name:
		return fmt.Errorf("service %s does not select the job's pods", service.Name)
	case !service.Spec.PublishNotReadyAddresses:
		return fmt.Errorf("service %s knows pods only when they are ready: they wait for each other before", service.Name)
	}
	return m.fitsCommand(job)
}

// fitsCommand checks the arguments of the containers.
func (m *manifest) fitsCommand(job *batchv1.Job) error {
	pod := &job.Spec.Template.Spec
	for _, container := range pod.Containers {
		words := strings.Join(append(container.Command, container.Args...), " ")
		for _, wanted := range []string{
			fmt.Sprintf("--nnodes %d ", *job.Spec.Completions),
			fmt.Sprintf("--master-addr %s-0.%s ", job.Name, pod.Subdomain),
		} {
			if !strings.Contains(words+" ", wanted) {
				return fmt.Errorf("container %s runs %q, without %s", container.Name, words, wanted)
			}
		}
	}
	for _, volume := range pod.Volumes {
		if volume.Secret != nil && !m.hasSecret(volume.Secret.SecretName) {
			return fmt.Errorf("there is no secret %s", volume.Secret.SecretName)
		}
	}
	return nil
}

func (m *manifest) service(name string) (*corev1.Service, error) {
	for i := range m.services {
		if m.services[i].Name == name {
			return &m.services[i], nil
		}
	}
	return nil, fmt.Errorf("there is no service %q, after which its pods are named", name)
}

func (m *manifest) hasSecret(name string) bool {
	for i := range m.secrets {
		if m.secrets[i].Name == name {
			return true
		}
	}
	return false
}
