package pmix

// dataType is a type of PMIx (pmix_data_type_t).
type dataType uint16

// The types of the encoding v3.
const (
	typeUndef            dataType = 0
	typeBool             dataType = 1
	typeByte             dataType = 2
	typeString           dataType = 3
	typeSize             dataType = 4
	typePID              dataType = 5
	typeInt              dataType = 6
	typeInt8             dataType = 7
	typeInt16            dataType = 8
	typeInt32            dataType = 9
	typeInt64            dataType = 10
	typeUint             dataType = 11
	typeUint8            dataType = 12
	typeUint16           dataType = 13
	typeUint32           dataType = 14
	typeUint64           dataType = 15
	typeFloat            dataType = 16
	typeDouble           dataType = 17
	typeTimeval          dataType = 18
	typeTime             dataType = 19
	typeStatus           dataType = 20
	typeValue            dataType = 21
	typeProc             dataType = 22
	typeApp              dataType = 23
	typeInfo             dataType = 24
	typePdata            dataType = 25
	typeBuffer           dataType = 26
	typeByteObject       dataType = 27
	typeKval             dataType = 28
	typePersist          dataType = 30
	typePointer          dataType = 31
	typeScope            dataType = 32
	typeDataRange        dataType = 33
	typeCommand          dataType = 34
	typeInfoDirectives   dataType = 35
	typeDataType         dataType = 36
	typeProcState        dataType = 37
	typeProcInfo         dataType = 38
	typeDataArray        dataType = 39
	typeProcRank         dataType = 40
	typeQuery            dataType = 41
	typeCompressedString dataType = 42
	typeAllocDirective   dataType = 43
	typeIOFChannel       dataType = 45
	typeEnvar            dataType = 46
)

// rankWildcard means all ranks, like world.AllRanks (pmix_rank_t).
const rankWildcard = 0xfffffffe

// scope says which ranks see what a rank commits (pmix_scope_t).
type scope uint8

const (
	scopeLocal  scope = 1 // ranks on its host
	scopeRemote scope = 2 // ranks on other hosts
	scopeGlobal scope = 3 // both
)

// status is the result of a request, or the code of an event (pmix_status_t).
type status int32

const (
	statusSuccess        status = 0
	statusError          status = -1
	statusExists         status = -11
	statusInvalidCred    status = -12
	statusNoPermissions  status = -23
	statusTimeout        status = -24
	statusBadParameter   status = -27
	statusOutOfResource  status = -29
	statusNotFound       status = -46
	statusNotSupported   status = -47
	statusPartialSuccess status = -52
	alertHeartbeat       status = -109
	alertFile            status = -110
	statusJobNotLaunched status = -181
)

// value is an item with its type, still encoded: values that are only passed on are never decoded. raw is always valid,
// since decoder.value checks it.
type value struct {
	typ dataType
	raw []byte
}

// procRank is a rank in a value.
type procRank uint32

// info is an attribute of a request (pmix_info_t), or a key and its value without flags (pmix_kval_t). Flags are 1 for
// required, 16 for persistent, ….
type info struct {
	key   string
	flags uint32
	value value
}

// app is a program to spawn (pmix_app_t).
type app struct {
	command  string
	argv     []string
	env      []string
	dir      string
	maxProcs int
	infos    []info
}

// query is one part of a QUERY (pmix_query_t).
type query struct {
	keys       []string
	qualifiers []info
}

// find returns the value of a key.
func find(infos []info, key string) (value, bool) {
	for _, i := range infos {
		if i.key == key {
			return i.value, true
		}
	}
	return value{}, false
}

// integerOf returns an attribute that is a number.
func integerOf(infos []info, key string) (int64, bool) {
	v, _ := find(infos, key)
	return v.integer()
}

// isTrue reports whether a flag is set. Without a value it is.
func isTrue(infos []info, key string) bool {
	v, ok := find(infos, key)
	return ok && v.isTrue()
}
