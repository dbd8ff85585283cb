package lab

import (
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// netDialer gives up soon on an address that is gone: a client must not hang on a dead pod.
var netDialer = net.Dialer{Timeout: 500 * time.Millisecond, KeepAlive: time.Second}

// tagsOfSlots has a hash tag for every slot.
var tagsOfSlots = sync.OnceValue(func() []string {
	tags, left := make([]string, slot.Count), slot.Count
	for i := 0; left > 0; i++ {
		tag := strconv.Itoa(i)
		if n := Slot(tag); tags[n] == "" {
			tags[n], left = tag, left-1
		}
	}
	return tags
})

// Tag is a hash tag: keys "{tag}…" are in the slot.
func Tag(n int) string { return tagsOfSlots()[n] }

// Slot is the hash slot of a key without braces: CRC16 (XMODEM) modulo 16384, as the cluster specification says.
func Slot(key string) int {
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slot.Count
}
