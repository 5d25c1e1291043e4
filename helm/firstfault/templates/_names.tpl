{{- define "firstfault.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "firstfault.watcher" -}}
{{- printf "%s-watcher" (include "firstfault.fullname" .) -}}
{{- end -}}

{{- define "firstfault.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "firstfault.url" -}}
{{- default (printf "http://%s:%v" (include "firstfault.fullname" .) .Values.service.port) .Values.watcher.service -}}
{{- end -}}

{{- /* Where the watcher may go, one port after the other: as the values say, and to the service elsewhere. */ -}}
{{- define "firstfault.watcherPorts" -}}
{{- $ports := list -}}
{{- range .Values.networkPolicy.watcherPorts -}}
{{- $ports = append $ports (int . | toString) -}}
{{- end -}}
{{- with .Values.watcher.service -}}
{{- $url := urlParse . -}}
{{- $usual := ternary "443" "80" (eq $url.scheme "https") -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default $usual) -}}
{{- end -}}
{{- $ports | uniq | join " " -}}
{{- end -}}

{{- define "firstfault.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "firstfault.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Where a pod may run: of "bot" or "watcher". */ -}}
{{- define "firstfault.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "firstfault.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "firstfault.labels" -}}
{{ include "firstfault.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
