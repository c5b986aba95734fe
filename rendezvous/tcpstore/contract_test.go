package tcpstore

import (
	"testing"

	"gorun/rendezvous"
	"gorun/rendezvous/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) rendezvous.Store { return dial(t, open(t, Config{})) })
}
