package tlscheck

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// byteOrderMark is what some editors put before a text; no library skips it.
var byteOrderMark = []byte("\xef\xbb\xbf")

const certificateBlock = "CERTIFICATE"

// blocks are the PEM blocks of a type, in order. Text around them is skipped, as servers do. A
// block that was begun and cannot be read is an error: a library that skips it and one that
// stops there would see two different files.
func blocks(text []byte, wanted func(kind string) bool) ([]*pem.Block, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	begun := bytes.Count(text, []byte("-----BEGIN "))
	var out []*pem.Block
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		begun--
		if wanted(block.Type) {
			out = append(out, block)
		}
		text = rest
	}
	if begun != 0 {
		return nil, errors.New("a PEM block cannot be read")
	}
	return out, nil
}

func isCertificate(kind string) bool { return kind == certificateBlock || kind == "X509 CERTIFICATE" }

// leafFirst reads tls.crt: the leaf and what is between it and the authority.
func leafFirst(text []byte) ([]*x509.Certificate, error) {
	found, err := blocks(text, isCertificate)
	if err != nil || len(found) == 0 {
		return nil, errors.New(": tls.crt is not valid PEM")
	}
	chain, err := parse(found)
	if err != nil {
		return nil, errors.New(": tls.crt is not a valid X.509 certificate")
	}
	return chain, nil
}

func certificates(text []byte) ([]*x509.Certificate, error) {
	found, err := blocks(text, isCertificate)
	if err != nil {
		return nil, err
	}
	return parse(found)
}

func parse(found []*pem.Block) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for _, block := range found {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func encode(certs []*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw})...)
	}
	return out
}

// privateKey reads tls.key and gives its one key as PEM.
func privateKey(text []byte) ([]byte, error) {
	found, err := blocks(text, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })
	if err != nil || len(found) != 1 {
		return nil, errors.New(": tls.key is not one private key in PEM")
	}
	block := found[0]
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
		return nil, errors.New(": tls.key is encrypted; a server has nobody to ask for the passphrase")
	}
	if !isKey(block.Bytes) {
		return nil, errors.New(": tls.key is not a valid private key")
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}), nil
}

func isKey(der []byte) bool {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		_, ok := key.(crypto.Signer)
		return ok
	}
	if _, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return true
	}
	_, err := x509.ParseECPrivateKey(der)
	return err == nil
}
