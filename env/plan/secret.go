package plan

import "strings"

// hidden stands for a value in what people see.
const hidden = "<hidden>"

// Shown is the value as a plan or a report may print it: whole, unless it looks
// like a secret by the variable's name or by a password in a URL. Ranks get the
// value as it is.
func (v Variable) Shown() string {
	if v.Value == "" || !secretName(v.Name) && !secretURL(v.Value) {
		return v.Value
	}
	return hidden
}

// secretName recognises AWS_SECRET_ACCESS_KEY, HF_TOKEN, WANDB_API_KEY and the
// like by the words of a name.
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

// secretURL recognises scheme://user:password@host.
func secretURL(value string) bool {
	_, rest, isURL := strings.Cut(value, "://")
	if !isURL {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	user, _, found := strings.Cut(authority, "@")
	return found && strings.Contains(user, ":")
}
