package topology

import (
	"strings"
	"time"
)

// readInfo reads INFO. Field names are the protocol's own.
func readInfo(s *Server, text string) {
	var isReplica bool
	var applied int64 = -1
	var down time.Duration = -1
	lines(text, func(name, value string) {
		switch name {
		case "valkey_version":
			s.Version = value
		case "redis_version":
			// Valkey keeps this at the version it is compatible with; servers
			// that have nothing else are older than any Valkey.
			if s.Version == "" {
				s.Version = value
			}
		case "role":
			isReplica = value == "slave"
		case "master_link_status":
			s.LinkUp = value == "up"
		case "master_sync_in_progress":
			s.Syncing = value == "1"
		case "master_link_down_since_seconds":
			down = seconds(value)
		case "master_repl_offset":
			s.Offset = number(value)
		case "slave_repl_offset":
			applied = number(value)
		case "loading", "async_loading":
			s.Loading = s.Loading || value == "1"
		case "rdb_bgsave_in_progress", "aof_rewrite_in_progress",
			"module_fork_in_progress", "slot_migration_fork_in_progress":
			s.Saving = s.Saving || value == "1"
		case "number_of_libraries":
			s.Libraries = int(number(value))
		case "used_memory":
			s.UsedMemory = number(value)
		case "tls_server_cert_serial":
			s.TLSSerial = serial(value)
		case "tls_ca_cert_serial":
			s.TLSCASerial = serial(value)
		default:
			readNumbered(s, name, value)
		}
	})
	if isReplica && applied >= 0 {
		s.Offset = applied
	}
	if isReplica && !s.LinkUp {
		s.LinkDownFor = down
	}
}

// readNumbered reads the lines whose names count: one a replica, one a database.
//
//	slave0:ip=10.0.0.7,port=6379,state=online,offset=1234,lag=0,type=replica
//	db0:keys=2,expires=0,avg_ttl=0
func readNumbered(s *Server, name, value string) {
	switch {
	case strings.HasPrefix(name, "db"):
		s.Keys += number(pairs(value)["keys"])
	case strings.HasPrefix(name, "slave") && strings.HasPrefix(value, "ip="):
		f := pairs(value)
		if f["type"] == "rdb-channel" {
			return // a second connection of one replica, for the time of its full sync
		}
		s.Followers = append(s.Followers, Follower{
			IP:     f["ip"],
			Port:   port(f["port"]),
			Online: f["state"] == "online",
			Offset: number(f["offset"]),
			Lag:    seconds(f["lag"]),
		})
	}
}

func pairs(text string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			out[name] = value
		}
	}
	return out
}

// seconds is -1 for "never", which servers write as -1, and for what is no
// number of seconds.
func seconds(text string) time.Duration {
	n := number(text)
	if n < 0 || n > int64(time.Duration(1<<63-1)/time.Second) {
		return -1
	}
	return time.Duration(n) * time.Second
}

// serial is empty where the server has no certificate.
func serial(text string) string {
	if text == "none" {
		return ""
	}
	return text
}
