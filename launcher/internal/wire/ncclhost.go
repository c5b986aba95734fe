package wire

import "gorun/env/nccl"

type (
	ncclHost nccl.Host
	confFile nccl.ConfFile
)

func (h *ncclHost) fields(c *coder) {
	foreign(c, 1, &h.Conf, func(f *nccl.ConfFile) fielder { return (*confFile)(f) })
	c.flag(2, &h.GPUs)
	text(c, 3, &h.Library)
	text(c, 4, &h.Container)
	c.flag(5, &h.NoMemoryPolicy)
	c.flag(6, &h.NoVerbs)
	text(c, 7, &h.NoVerbsWhy)
	number(c, 8, &h.Memlock)
	number(c, 9, &h.Shm)
	c.flag(10, &h.EndlessStack)
	text(c, 11, &h.Cloud)
	text(c, 12, &h.ROCm)
	c.texts(13, &h.GFX)
	c.flag(14, &h.OnlyLoopback)
}

func (f *confFile) fields(c *coder) {
	text(c, 1, &f.Path)
	text(c, 2, &f.Text)
}
