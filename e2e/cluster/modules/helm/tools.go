//go:build tools

// Package tools pins the Helm client that installs the chart on the test cluster.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
