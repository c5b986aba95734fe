package main

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/rendezvous/tcpstore"
)

func TestStoreConfig(t *testing.T) {
	got := storeConfig(dialect.StoreServer{
		Host: "::1", Port: 7, Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		AllowLocalUsers: true, MaxKey: 1, MaxValue: 2, MaxKeys: 3, MaxMemory: 4, MaxConnections: 5,
	}, nil)
	require.True(t, got.Allow(netip.MustParseAddr("10.1.1.1")))
	require.False(t, got.Allow(netip.MustParseAddr("11.1.1.1")))
	got.Allow = nil
	require.Equal(t, tcpstore.Config{
		Host: "::1", Port: 7, AllowLocalUsers: true, AllowOption: "--allow-from",
		AllowLocalUsersOption: "--allow-local-users",
		Limits:                tcpstore.Limits{Key: 1, Value: 2, Keys: 3, Memory: 4, Connections: 5},
	}, got)
	require.Nil(t, storeConfig(dialect.StoreServer{}, nil).Allow)
}

func TestStoreEnded(t *testing.T) {
	require.Equal(t, 0, storeEnded(syscall.SIGTERM))
	require.Equal(t, 130, storeEnded(syscall.SIGINT))
	require.Equal(t, 129, storeEnded(syscall.SIGHUP))
}
