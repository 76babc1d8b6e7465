package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// DescribeUserScramCredentials (API 50): by which mechanisms users can log in
// (KIP-554). Version 0, flexible. Null, or none, asks about all users that have a
// password. Only administrators are answered.
func init() {
	register(api{key: 50, min: 0, max: 0, handle: decodes(describeUserScram)})
}

// scramNumbers are Kafka's for the mechanisms.
var scramNumbers = map[int8]scram.Mechanism{1: scram.SHA256, 2: scram.SHA512}

func describeUserScram(_ context.Context, r *request, req *kmsg.DescribeUserSCRAMCredentialsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if err := r.caller.checkUsers(); err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		return resp, nil
	}
	accounts := r.conn.server.cfg.Accounts
	if len(req.Users) == 0 {
		for _, u := range accounts.Users() {
			if infos := scramInfos(&u); len(infos) > 0 {
				resp.Results = append(resp.Results, scramResult(string(u.Name), infos, nil))
			}
		}
		return resp, nil
	}
	times := map[string]int{}
	for i := range req.Users {
		times[req.Users[i].Name]++
	}
	for i := range req.Users {
		name := req.Users[i].Name
		if times[name] == 0 {
			continue // answered, once
		}
		u, _ := accounts.User(rhumb.UserName(name))
		infos, err := scramInfos(&u), error(nil)
		switch {
		case times[name] > 1:
			infos, err = nil, withCode(codeDuplicateResource, fmt.Sprintf("user %q stands more than once in the request", name))
		case len(infos) == 0:
			err = withCode(codeResourceNotFound, fmt.Sprintf("user %q has no password, or is not there", name))
		}
		times[name] = 0
		resp.Results = append(resp.Results, scramResult(name, infos, err))
	}
	return resp, nil
}

func scramResult(name string, infos []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo, err error) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	out.User, out.CredentialInfos = name, infos
	out.ErrorCode, out.ErrorMessage = codeOf(scopeAdmin, err), text(err)
	return out
}

func scramInfos(u *configstore.User) []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo {
	var out []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo
	for number := int8(1); scramNumbers[number] != ""; number++ {
		if v := u.Scram.Of(scramNumbers[number]); v != nil {
			info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
			info.Mechanism, info.Iterations = number, int32(v.Iterations)
			out = append(out, info)
		}
	}
	return out
}
