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

// HideSecrets hides the values of NAME=VALUE and --name=VALUE, also in --option=NAME=VALUE, and those of NAME VALUE
// after Hydra's -env.
func HideSecrets(args []string) []string {
	var shown func(arg string) string
	shown = func(arg string) string {
		name, value, found := strings.Cut(arg, "=")
		if !found {
			return arg
		}
		v := Variable{Name: strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"), Value: value}
		if v.Shown() != value {
			return name + "=" + v.Shown()
		}
		return name + "=" + shown(value)
	}
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = shown(arg)
		if i > 1 && strings.HasSuffix(args[i-2], "env") && strings.HasPrefix(args[i-2], "-") {
			list[i] = Variable{Name: args[i-1], Value: arg}.Shown()
		}
	}
	return list
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
