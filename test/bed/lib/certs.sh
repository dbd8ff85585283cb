# shellcheck shell=bash
# Certificates and kubeconfigs: one authority, EC keys, good for a year.

# openssl_quiet shows openssl's words only when it fails.
openssl_quiet() {
  local out
  out=$(openssl "$@" 2>&1) || die "openssl $1 failed: $out"
}

# leaf NAME SUBJECT EXTENSIONS signs one certificate.
leaf() {
  local at=$RUN/pki/$1
  printf '%b\n' "$3" >"$at.ext"
  openssl_quiet req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$at.key" -out "$at.csr" -subj "$2"
  openssl_quiet x509 -req -in "$at.csr" -CA "$RUN/pki/ca.crt" -CAkey "$RUN/pki/ca.key" -CAcreateserial \
    -out "$at.crt" -days 365 -extfile "$at.ext"
  rm "$at.csr" "$at.ext"
}

# kubeconfig_for NAME URL
kubeconfig_for() {
  cat >"$RUN/pki/$1.kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: bed, cluster: {server: "$2", certificate-authority: $RUN/pki/ca.crt}}]
users: [{name: $1, user: {client-certificate: $RUN/pki/$1.crt, client-key: $RUN/pki/$1.key}}]
contexts: [{name: bed, context: {cluster: bed, user: $1}}]
current-context: bed
EOF
}

# make_certs URL NODES writes $RUN/pki for a control plane at URL.
make_certs() {
  local url=$1 nodes=$2 i san client=extendedKeyUsage=clientAuth
  mkdir -p "$RUN/pki"
  openssl_quiet req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=bed-ca \
    -keyout "$RUN/pki/ca.key" -out "$RUN/pki/ca.crt"
  san=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
  san=$san,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:10.96.0.1,IP:$HUB_IP
  leaf apiserver /CN=kube-apiserver "extendedKeyUsage=serverAuth\nsubjectAltName=$san"
  leaf admin /O=system:masters/CN=admin $client
  leaf kube-controller-manager /CN=system:kube-controller-manager $client
  leaf kube-scheduler /CN=system:kube-scheduler $client
  leaf kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client $client
  openssl_quiet genrsa -out "$RUN/pki/sa.key" 2048
  openssl_quiet rsa -in "$RUN/pki/sa.key" -pubout -out "$RUN/pki/sa.pub"
  for i in $(seq "$nodes"); do
    leaf "n$i" "/O=system:nodes/CN=system:node:n$i" \
      "extendedKeyUsage=clientAuth,serverAuth\nsubjectAltName=DNS:n$i,IP:127.0.0.1,IP:$(node_ip "$i")"
    kubeconfig_for "n$i" "$url"
  done
  for i in admin kube-controller-manager kube-scheduler; do kubeconfig_for "$i" "$url"; done
}
