package main

import (
	"io/fs"
	"os"
	"slices"

	"gorun/env/nccl"
)

// readConf reads the configuration files that libraries of these kinds read in this process's place.
func readConf(kinds ...nccl.Library) (files []nccl.ConfFile, errs []*fs.PathError) {
	dir := func() string {
		dir, _ := os.Getwd()
		return dir
	}
	for _, kind := range kinds {
		more, moreErrs := nccl.ReadConf(os.DirFS("/"), kind, os.Getenv, dir)
		for _, f := range more { // both kinds read NCCL_CONF_FILE
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
		for _, err := range moreErrs {
			if !slices.ContainsFunc(errs, func(e *fs.PathError) bool { return e.Path == err.Path }) {
				errs = append(errs, err)
			}
		}
	}
	return files, errs
}

// localSettings yields the settings of the configuration files on this host.
func localSettings(yield func(nccl.Assignment) bool) {
	files, _ := readConf(nccl.NCCL, nccl.RCCL)
	for _, file := range files {
		for _, s := range file.Settings() {
			if !yield(s) {
				return
			}
		}
	}
}

// addConf adds the settings of a configuration file to those that override it.
func addConf(settings []nccl.Assignment, file nccl.ConfFile) []nccl.Assignment {
	for _, a := range file.Settings() {
		if !slices.ContainsFunc(settings, func(b nccl.Assignment) bool { return b.Name == a.Name }) {
			settings = append(settings, a)
		}
	}
	return settings
}
