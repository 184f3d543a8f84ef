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
