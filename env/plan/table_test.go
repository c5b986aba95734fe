package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// An exception after its pattern would never match.
func TestEveryRuleIsReached(t *testing.T) {
	for _, r := range rules() {
		if r.level == ForStudy { // this rule is an alternative to the rule with the same name
			continue
		}
		name := strings.TrimSuffix(r.Name, "*") + strings.Repeat("X", strings.Count(r.Name, "*"))
		assert.Same(t, r, ruleFor(name), "%s is covered by an earlier rule", r.Name)
	}
}

func TestRowsAreComplete(t *testing.T) {
	for _, row := range Table() {
		assert.NotEmpty(t, row.Reason, row.Name)
		assert.NotEmpty(t, row.Source, row.Name)
		assert.Contains(t, []Class{ClassIdentity, ClassSetting, ClassRequest, ClassLauncher}, row.Class, row.Name)
	}
	for _, r := range rules() {
		assert.Equal(t, r.value != nil || r.Class == ClassSetting, r.Value != "",
			"%s: what ranks get is said if they get it", r.Name)
	}
}

func TestMarkdown(t *testing.T) {
	page := Markdown()
	for _, row := range Table() {
		assert.Contains(t, page, "`"+row.Name+"` | ")
		assert.Equal(t, 1, strings.Count(page, anchor(row.Name)))
	}
	for _, d := range DifferencesFromTorchrun() {
		assert.Contains(t, page, "| "+d.Name+" | "+d.Torchrun+" | ")
	}
	columns := 0
	for line := range strings.Lines(page) {
		switch n := strings.Count(line, "|"); {
		case n == 0:
			columns = 0
		case columns == 0:
			columns = n
		default:
			assert.Equal(t, columns, n, line)
		}
	}
}

func TestShown(t *testing.T) {
	for _, v := range []Variable{
		{Name: "HF_TOKEN", Value: "hf_x"},
		{Name: "AWS_SECRET_ACCESS_KEY", Value: "x"},
		{Name: "db_password", Value: "x"},
		{Name: "PGPASSWORD", Value: "x"},
		{Name: "AWS_ACCESS_KEY_ID", Value: "x"},
		{Name: "NPM_AUTHTOKEN", Value: "x"},
		{Name: "API_KEYS", Value: "x"},
		{Name: "HTTPS_PROXY", Value: "http://user:pw@proxy:3128/"},
	} {
		assert.Equal(t, "<hidden>", v.Shown(), v.Name)
	}
	for _, v := range []Variable{
		{Name: "PATH", Value: "/bin"},
		{Name: "TOKENIZERS_PARALLELISM", Value: "false"},
		{Name: "KEYBOARD", Value: "de"},
		{Name: "HF_TOKEN"},
		{Name: "HTTPS_PROXY", Value: "http://proxy:3128/a:b@c"},
		{Name: "SSH_AUTH_SOCK", Value: "/run/agent"},
	} {
		assert.Equal(t, v.Value, v.Shown(), v.Name)
	}
}
