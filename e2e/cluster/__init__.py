"""A real single-node Kubernetes cluster for tests and the demo.

`python -m e2e.cluster build|up|down|status|check|kubeconfig` is the command line. Kubernetes,
etcd, CoreDNS, containerd and helm are compiled from the Go modules under `modules/`; runc and
the CNI plugins are Debian's. Everything the cluster owns lies under one state directory, in
the address range 198.18.0.0/15 and behind names that begin with `paceline-e2e`.
"""
