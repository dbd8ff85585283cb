package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Quote writes one argument so that Valkey reads back exactly these bytes
// (sdssplitargs in sds.c). Plain words stay as they are.
func Quote(argument string) string {
	if isPlain(argument) {
		return argument
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(argument); {
		r, size := utf8.DecodeRuneInString(argument[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(argument[i])
		case r < ' ' || r == 0x7f || r == utf8.RuneError && size == 1:
			// Control characters would end the line, and bytes that are not UTF-8
			// would not survive in a ConfigMap.
			fmt.Fprintf(&b, `\x%02x`, argument[i])
		default:
			b.WriteString(argument[i : i+size])
		}
		i += size
	}
	b.WriteByte('"')
	return b.String()
}

// isPlain says whether Valkey reads the argument as it stands. The list is short on
// purpose: a quote too many harms nobody.
func isPlain(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-_./:*%+,@=", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

var errUnbalanced = errors.New("unbalanced quotes")

// split reads a line as Valkey does (sdssplitargs): words between spaces, each with
// parts in double quotes (\n \r \t \a \b, \xHH, any other character after a
// backslash stands for itself) or in single quotes (only \' is special). A closing quote must be
// followed by a space or the end. It is an error if quotes do not balance.
func split(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, spaces)
		if line == "" {
			return words, nil
		}
		word, rest, err := splitWord(line)
		if err != nil {
			return nil, err
		}
		words, line = append(words, word), rest
	}
}

// spaces is what isspace(3) says in the C locale.
const spaces = " \t\n\v\f\r"

func splitWord(line string) (word, rest string, err error) {
	var b strings.Builder
	for line != "" {
		c := line[0]
		switch {
		// \v and \f separate words but do not end one: so does the server.
		case c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == 0:
			return b.String(), line[1:], nil
		case c == '"' || c == '\'':
			line, err = unquote(&b, c, line[1:])
			if err != nil {
				return "", "", err
			}
		default:
			b.WriteByte(c)
			line = line[1:]
		}
	}
	return b.String(), "", nil
}

// unquote reads up to the closing quote and gives what follows it.
func unquote(b *strings.Builder, quote byte, s string) (rest string, err error) {
	for s != "" {
		switch {
		case s[0] == quote:
			if len(s) > 1 && strings.IndexByte(spaces, s[1]) < 0 {
				return "", errUnbalanced
			}
			return s[1:], nil
		case s[0] == '\\' && quote == '\'' && strings.HasPrefix(s[1:], "'"):
			b.WriteByte('\'')
			s = s[2:]
		case s[0] == '\\' && quote == '"' && len(s) > 1:
			s = unescape(b, s[1:])
		default:
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return "", errUnbalanced
}

// unescape reads what follows a backslash in double quotes; s is not empty.
func unescape(b *strings.Builder, s string) (rest string) {
	if s[0] == 'x' && len(s) > 2 {
		if bytes, err := hex.DecodeString(s[1:3]); err == nil {
			b.Write(bytes)
			return s[3:]
		}
	}
	c := s[0]
	if i := strings.IndexByte("nrtba", c); i >= 0 {
		c = "\n\r\t\b\a"[i]
	}
	b.WriteByte(c)
	return s[1:]
}
