package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Write is one request of the operator that changes something, from the API server's audit log.
type Write struct {
	At                              time.Time
	Verb, Resource, Sub, Name, Code string
}

func (w Write) String() string {
	return fmt.Sprintf("%s %s %s/%s %s -> %s", w.At.Format("15:04:05.000"), w.Verb, w.Resource, w.Sub, w.Name, w.Code)
}

// auditLine is what is read of an audit event.
type auditLine struct {
	Verb string
	User struct{ Username string }
	Ref  struct {
		Resource, Namespace, Name, Subresource string
	} `json:"objectRef"`
	Response struct {
		Code int
	} `json:"responseStatus"`
	At time.Time `json:"requestReceivedTimestamp"`
}

// Mark remembers where the audit log ends now.
func (s *Site) Mark() int64 {
	s.T.Helper()
	info, err := os.Stat(filepath.Join(s.Bed.Run, "audit.log"))
	if err != nil {
		s.T.Fatal(err)
	}
	return info.Size()
}

// Writes lists what the operator wrote in the namespace since a Mark, leases and Events left out if the caller says so.
func (s *Site) Writes(since int64, leaveOut ...string) []Write {
	s.T.Helper()
	file, err := os.Open(filepath.Join(s.Bed.Run, "audit.log"))
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(since, io.SeekStart); err != nil {
		s.T.Fatal(err)
	}
	user := "system:serviceaccount:" + OperatorName + ":" + OperatorName
	var out []Write
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 4<<20)
	for scan.Scan() {
		if !strings.Contains(scan.Text(), `"`+s.Name+`"`) {
			continue
		}
		var l auditLine
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil || l.User.Username != user || l.Ref.Namespace != s.Name {
			continue // a line that is being written, or somebody else's
		}
		if l.Verb == "get" || l.Verb == "list" || l.Verb == "watch" || contains(leaveOut, l.Ref.Resource) {
			continue
		}
		out = append(out, Write{l.At, l.Verb, l.Ref.Resource, l.Ref.Subresource, l.Ref.Name, fmt.Sprint(l.Response.Code)})
	}
	return out
}

func contains(list []string, item string) bool {
	for _, x := range list {
		if x == item {
			return true
		}
	}
	return false
}
