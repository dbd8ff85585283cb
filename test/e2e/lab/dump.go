package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// dump shows what a person would look at first, for each cluster of a failed test.
func (s *Site) dump() {
	var out strings.Builder
	for _, c := range s.clusters {
		fmt.Fprintf(&out, "---- ValkeyCluster %s/%s\n", s.Name, c.Name)
		if got, err := c.get(); err == nil {
			got.ManagedFields = nil
			text, _ := yaml.Marshal(got) // a typed object always marshals
			out.Write(text)
		} else {
			fmt.Fprintln(&out, err)
		}
		c.dumpViews(&out)
	}
	fmt.Fprintln(&out, "---- Events")
	if list, err := s.Bed.Kube.EventsV1().Events(s.Name).List(context.Background(), metav1.ListOptions{}); err == nil {
		for _, e := range list.Items[max(0, len(list.Items)-60):] {
			fmt.Fprintf(&out, "%s %s/%s %s: %s\n", e.CreationTimestamp.Format("15:04:05"), e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
		}
	}
	kept := filepath.Join(s.Bed.Run, "log", "e2e-"+s.Name+".log")
	if log, err := os.ReadFile(s.Operator.logPath); err == nil {
		err = os.WriteFile(kept, log, 0o644)
		if err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	fmt.Fprintf(&out, "---- operator log, last lines; all of it is in %s\n%s\n", kept, s.Operator.tail(40))
	s.T.Log(out.String())
}

func (c *Cluster) dumpViews(out *strings.Builder) {
	sample, err := c.Look()
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	for _, n := range sample.Nodes {
		where := "no pod"
		if n.Pod != nil {
			where = fmt.Sprintf("pod %s %s on %s, deleting %v", n.Pod.Status.Phase, n.Pod.Status.PodIP, n.Pod.Spec.NodeName, n.Pod.DeletionTimestamp != nil)
			for _, status := range n.Pod.Status.ContainerStatuses {
				if t := status.State.Terminated; t != nil {
					where += fmt.Sprintf(", ended %d: %.300s", t.ExitCode, t.Message)
				}
				if w := status.State.Waiting; w != nil {
					where += fmt.Sprintf(", waiting: %s %.200s", w.Reason, w.Message)
				}
			}
		}
		fmt.Fprintf(out, "-- %s shard %d %s revision %.12s, %s\n", n.Name(), n.Object.Spec.ShardIndex, n.Object.Spec.Lifecycle, n.Object.Spec.Revision, where)
		if n.Err != nil {
			fmt.Fprintf(out, "   %v\n", n.Err)
			continue
		}
		fmt.Fprintf(out, "   id %.8s ok %v assigned %d link up %v; %s\n", n.ID(), n.Server.StateOK, n.Server.SlotsAssigned, n.Server.LinkUp, describe(n.Server.View))
		for _, m := range n.Server.Migrations[:min(3, len(n.Server.Migrations))] {
			fmt.Fprintf(out, "   migration %s\n", fmt.Sprintf("%+v", m))
		}
	}
}
