{{/* The name of all objects: the release's, with hugewise in it. */}}
{{- define "hugewise.name" -}}
{{- if contains "hugewise" .Release.Name -}}
{{- .Release.Name | trunc 54 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-hugewise" (.Release.Name | trunc 45 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}
