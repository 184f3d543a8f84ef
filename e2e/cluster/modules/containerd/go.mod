module paceline.dev/e2e/cluster/containerd

go 1.26.0

require github.com/containerd/containerd/v2 v2.3.6
