package topology

import (
	"fmt"
	"strings"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// ParseMigrations reads CLUSTER GETSLOTMIGRATIONS as RESP2 gives it: a list of jobs,
// newest first, each a list of name, value, name, value, …. Values that it
// does not know are left out. It fails if the reply has another shape or a
// job's slots cannot be read; nil has no jobs.
func ParseMigrations(reply any) ([]Migration, error) {
	if reply == nil {
		return nil, nil
	}
	jobs, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("slot migrations: %T is no list", reply)
	}
	var out []Migration
	for i, job := range jobs {
		fields, ok := job.([]any)
		if !ok || len(fields)%2 != 0 {
			return nil, fmt.Errorf("slot migrations, job %d: no list of pairs", i)
		}
		m := Migration{State: Running}
		for ; len(fields) > 0; fields = fields[2:] {
			if err := readMigration(&m, text(fields[0]), text(fields[1])); err != nil {
				return nil, fmt.Errorf("slot migrations, job %d: %w", i, err)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

func readMigration(m *Migration, name, value string) error {
	switch name {
	case "name":
		m.Name = value
	case "operation":
		m.Export = value == "EXPORT"
	case "source_node":
		m.Source = NodeID(value)
	case "target_node":
		m.Target = NodeID(value)
	case "slot_ranges":
		for _, word := range strings.Fields(value) {
			r, err := slot.ParseRange(word)
			if err != nil {
				return err
			}
			m.Slots = append(m.Slots, r)
		}
	case "state":
		m.State = migrationState(value)
	case "create_time":
		m.Created = number(value)
	case "last_update_time":
		m.Updated = number(value)
	case "message":
		m.Message = value
	}
	return nil
}

// migrationState takes every word but the known ends for a job in flight.
func migrationState(word string) MigrationState {
	switch word {
	case "success":
		return Success
	case "failed":
		return Failed
	case "cancelled", "canceled":
		return Cancelled
	}
	return Running
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}
