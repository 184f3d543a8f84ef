{{- /* Names and labels that more than one template uses. */ -}}

{{- define "paceline.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "paceline.leaseName" -}}
{{ include "paceline.fullname" . }}-leader
{{- end }}

{{- /* Cluster-scoped names carry the namespace, so that two releases of one name can coexist. */ -}}
{{- define "paceline.clusterName" -}}
{{ printf "%s-%s" .Release.Namespace (include "paceline.fullname" .) }}
{{- end }}

{{- define "paceline.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "paceline.labels" -}}
{{ include "paceline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Fails where another release is bound to the same namespaces; nothing is known without a server. */ -}}
{{- define "paceline.refuseOverlap" -}}
{{- $own := include "paceline.clusterName" . -}}
{{- $watched := .Values.watchNamespaces -}}
{{- $bindings := list -}}
{{- range $kind := list "ClusterRoleBinding" "RoleBinding" -}}
{{- $found := lookup "rbac.authorization.k8s.io/v1" $kind "" "" -}}
{{- $bindings = concat $bindings ($found.items | default list) -}}
{{- end -}}
{{- range $bindings -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $isOperator := and (eq (get $labels "app.kubernetes.io/name") $.Chart.Name) (eq .roleRef.kind "ClusterRole") -}}
{{- if and $isOperator (ne .roleRef.name $own) -}}
{{- $place := .metadata.namespace | default "" -}}
{{- if or (not $watched) (not $place) (has $place $watched) -}}
{{- $other := first .subjects -}}
{{- fail (printf "release %s in namespace %s manages the InferenceServices of %s already, and two operators would undo each other's writes: give each release namespaces of its own by watchNamespaces, or uninstall the other one" (get $labels "app.kubernetes.io/instance") $other.namespace ($place | default "all namespaces")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
