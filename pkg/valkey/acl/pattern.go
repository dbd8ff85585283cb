package acl

// insideSelector rewrites a glob pattern that ends with ")" as one that matches
// the same and does not. The server takes the first word that ends with ")"
// for the end of the selector (acl.c, ACLMergeSelectorArguments): the
// rules after it would be the user's own, upon all the keys of the first permission.
//
//	a)    ->  a[)]
//	a\)   ->  a[)]
//	[a)   ->  [a)]      a set that nobody closed ends with the pattern
func insideSelector(pattern string) string {
	if pattern == "" || pattern[len(pattern)-1] != ')' {
		return pattern
	}
	for i := 0; i < len(pattern); {
		last := len(pattern) - 1
		switch {
		case pattern[i] == '\\' && i+1 == last:
			return pattern[:i] + "[)]"
		case pattern[i] == '\\':
			i += 2
		case pattern[i] == '[':
			end := setEnd(pattern, i+1)
			if end > last {
				return pattern + "]"
			}
			i = end
		case i == last:
			return pattern[:i] + "[)]"
		default:
			i++
		}
	}
	return pattern
}

// setEnd is where the pattern goes on after the set that begins at i, as
// the server walks through it (util.c, stringmatchlen); past the end if nothing closes it.
func setEnd(pattern string, i int) int {
	if i < len(pattern) && pattern[i] == '^' {
		i++
	}
	for i < len(pattern) {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i += 2
		case pattern[i] == ']':
			return i + 1
		case i+2 < len(pattern) && pattern[i+1] == '-':
			i += 3
		default:
			i++
		}
	}
	return len(pattern) + 1
}
