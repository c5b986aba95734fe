package plan

import "strings"

const hidden = "<hidden>"

// Shown returns the value for plans and reports. It hides a value whose name looks like a secret's, or that is a URL
// with a password. Ranks always get the real value.
func (v Variable) Shown() string {
	if v.Value == "" || !secretName(v.Name) && !secretURL(v.Value) {
		return v.Value
	}
	return hidden
}

// secretName recognizes names such as AWS_SECRET_ACCESS_KEY, HF_TOKEN and WANDB_API_KEY by their words.
func secretName(name string) bool {
	for word := range strings.SplitSeq(strings.ToUpper(name), "_") {
		switch word {
		case "SECRETS", "PASS", "PASSPHRASE", "KEY", "KEYS", "TOKENS", "PASSWORDS", "APIKEY", "CREDENTIAL", "CREDENTIALS",
			"COOKIE":
			return true
		}
		for _, end := range [...]string{"TOKEN", "PASSWORD", "PASSWD", "SECRET", "APIKEY"} {
			if strings.HasSuffix(word, end) { // PGPASSWORD, AUTHTOKEN
				return true
			}
		}
	}
	return false
}

// secretURL recognizes scheme://user:password@host.
func secretURL(value string) bool {
	_, rest, isURL := strings.Cut(value, "://")
	if !isURL {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	user, _, found := strings.Cut(authority, "@")
	return found && strings.Contains(user, ":")
}
