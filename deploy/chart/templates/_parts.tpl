{{- define "flarelog.labels" -}}
app.kubernetes.io/name: flarelog
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "flarelog.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "flarelog.address" -}}
{{- if .Values.receiver.enabled -}}
{{ .Release.Name }}-receiver.{{ .Release.Namespace }}.svc:4721
{{- else -}}
{{ required "receiver.address: say HOST:PORT of the receiver, or let the chart make one (receiver.enabled)" .Values.receiver.address }}
{{- end }}
{{- end }}

{{- define "flarelog.tls.args" -}}
{{- if .Values.tls.enabled -}}
- --tls-ca=/etc/flarelog-tls/ca.crt
- --tls-cert=/etc/flarelog-tls/tls.crt
- --tls-key=/etc/flarelog-tls/tls.key
{{- end }}
{{- end }}

{{- define "flarelog.tls.mount" -}}
{{- if .Values.tls.enabled -}}
- {name: tls, mountPath: /etc/flarelog-tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "flarelog.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
