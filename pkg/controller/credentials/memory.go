package credentials

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Memory has the Secrets that this process has read, so that those of a running cluster can be made again even where
// both are deleted at once: new passwords would lock everybody out. It is a help and no more: a new
// process knows nothing. The zero Memory is empty and ready.
type Memory struct {
	mu   sync.Mutex
	last map[types.UID]*corev1.Secret
}

// Remember keeps what the Secret of a cluster says now.
func (m *Memory) Remember(cluster types.UID, secret *corev1.Secret) {
	kept := &corev1.Secret{}
	Copy(kept, secret)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		m.last = map[types.UID]*corev1.Secret{}
	}
	m.last[cluster] = kept
}

// Recall fills a Secret with what it had, if those passwords are in force where the file, the cluster's
// users.acl, is loaded.
func (m *Memory) Recall(cluster types.UID, file string, into *corev1.Secret) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.last[cluster]
	if kept == nil || !InForce(kept, file) {
		return false
	}
	Copy(into, kept)
	return true
}

// Forget drops what is known of a cluster that is no more.
func (m *Memory) Forget(cluster types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, cluster)
}
