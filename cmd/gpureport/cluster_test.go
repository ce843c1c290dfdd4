package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A real Slurm controller and worker on this machine run templates/cluster: an array of digests, and one analyze that waits for it. The
// report has the bytes of the one that analyze makes of the folder itself.
func TestSlurmArrayMakesTheSameReport(t *testing.T) {
	for _, p := range []string{"slurmctld", "slurmd", "sbatch", "munged"} {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("GPUREPORT_SLURM") == "required" {
				t.Fatalf("%s is not installed, and GPUREPORT_SLURM=required", p)
			}
			t.Skipf("%s is not installed: the job array was not run", p)
		}
	}
	if os.Getuid() != 0 {
		if os.Getenv("GPUREPORT_SLURM") == "required" {
			t.Fatal("slurmd wants to be root, and GPUREPORT_SLURM=required")
		}
		t.Skip("slurmd wants to be root: the job array was not run")
	}
	work := t.TempDir()
	bin := filepath.Join(work, "gpureport")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conf := startSlurm(t)
	traces, err := filepath.Abs("../../fixtures/late-rank/in")
	if err != nil {
		t.Fatal(err)
	}
	submit, err := filepath.Abs("../../templates/cluster/slurm.sh")
	if err != nil {
		t.Fatal(err)
	}
	direct, array := filepath.Join(work, "direct"), filepath.Join(work, "array")
	if out, err := exec.Command(bin, "analyze", traces, "-o", direct).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env := append(os.Environ(), "SLURM_CONF="+conf, "TRACES="+traces, "OUT="+array, "TASKS=3", "GPUREPORT="+bin)
	c := exec.Command("bash", submit, "--mem=0", "--cpus-per-task=1")
	c.Env, c.Dir = env, work
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	logs := func() string {
		var b strings.Builder
		names, _ := filepath.Glob(filepath.Join(array, "logs", "*"))
		for _, n := range names {
			text, _ := os.ReadFile(n)
			fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(n), text)
		}
		q := exec.Command("squeue", "--long")
		q.Env = env
		text, _ := q.CombinedOutput()
		b.Write(text)
		return b.String()
	}
	for until := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		q := exec.Command("squeue", "--noheader")
		q.Env = env
		left, err := q.CombinedOutput()
		if err == nil && len(bytes.TrimSpace(left)) == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the jobs did not end within 3 minutes\n%s%s", out, logs())
		}
	}
	for _, name := range []string{"report.json", "report.html", "report.xlsx"} {
		want, err := os.ReadFile(filepath.Join(direct, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(array, name))
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, logs())
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s: the job array's differs from the direct run's", name)
		}
	}
	if n, _ := filepath.Glob(filepath.Join(array, "digests", "*")); len(n) != 4 {
		t.Errorf("%d digests of four ranks: %v", len(n), n)
	}
}

// startSlurm runs an authentication daemon, a controller and a worker of their own until the test ends; it gives the configuration's path.
func startSlurm(t *testing.T) string {
	t.Helper()
	// Sockets want short paths.
	dir, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	for _, d := range []string{"run", "state", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key := make([]byte, 1024)
	rand.Read(key)
	if err := os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o400); err != nil {
		t.Fatal(err)
	}
	var ports [2]int
	var held []net.Listener
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	for _, l := range held {
		l.Close()
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	conf := at("slurm.conf")
	text := strings.Join([]string{
		"ClusterName=test", "SlurmctldHost=" + host + "(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root",
		"AuthType=auth/munge", "AuthInfo=socket=" + at("run/munge.sock"), "CredType=cred/munge",
		"StateSaveLocation=" + at("state"), "SlurmdSpoolDir=" + at("spool"),
		"SlurmctldPidFile=" + at("run/slurmctld.pid"), "SlurmdPidFile=" + at("run/slurmd.pid"),
		"SlurmctldLogFile=" + at("slurmctld.log"), "SlurmdLogFile=" + at("slurmd.log"),
		fmt.Sprintf("SlurmctldPort=%d", ports[0]), fmt.Sprintf("SlurmdPort=%d", ports[1]),
		"ProctrackType=proctrack/pgid", "TaskPlugin=task/none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
		"SchedulerParameters=batch_sched_delay=0,sched_interval=1", "MinJobAge=2", "ReturnToService=2", "MpiDefault=none",
		"AccountingStorageType=accounting_storage/none",
		fmt.Sprintf("NodeName=%s NodeAddr=127.0.0.1 CPUs=%d State=UNKNOWN", host, runtime.NumCPU()),
		fmt.Sprintf("PartitionName=all Nodes=%s Default=YES MaxTime=INFINITE State=UP", host), ""}, "\n")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	daemon := func(log, name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			text, _ := os.ReadFile(at(log))
			t.Fatalf("%s: %v\n%s\n%s", name, err, out, text)
		}
	}
	t.Cleanup(func() {
		for _, p := range []string{"slurmd", "slurmctld", "munged"} {
			if pid, err := os.ReadFile(at("run/" + p + ".pid")); err == nil {
				exec.Command("kill", strings.TrimSpace(string(pid))).Run()
			}
		}
		for range 50 {
			if err := os.RemoveAll(dir); err == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	daemon("munged.log", "munged", "--force", "--key-file="+at("munge.key"), "--socket="+at("run/munge.sock"), "--pid-file="+at("run/munged.pid"),
		"--log-file="+at("munged.log"), "--seed-file="+at("munge.seed"))
	daemon("slurmctld.log", "slurmctld", "-f", conf)
	daemon("slurmd.log", "slurmd", "-f", conf)
	for until := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		q := exec.Command("sinfo", "--noheader", "--format=%t")
		q.Env = append(os.Environ(), "SLURM_CONF="+conf)
		out, _ := q.CombinedOutput()
		if strings.TrimSpace(string(out)) == "idle" {
			return conf
		}
		if time.Now().After(until) {
			a, _ := os.ReadFile(at("slurmctld.log"))
			b, _ := os.ReadFile(at("slurmd.log"))
			t.Fatalf("the worker was not idle within a minute: %s\n%s\n%s", out, a, b)
		}
	}
}
