// What the server says, as far as the page shows it: docs/schema/check.json, size.json, history.json, openapi.json.

export type Level = "error" | "warn" | "info";

export interface Pool {
  page_bytes: number;
  node: number | null;
  total_pages: number | null;
  available_pages: number | null;
  overcommit_pages: number | null;
}

export interface Host {
  name: string | null;
  os: string | null;
  kernel: string | null;
  architecture: string | null;
  read_at: string | null;
  memory_bytes: number | null;
  memory_available_bytes: number | null;
  page_tables_bytes: number | null;
  pools: Pool[] | null;
  thp: { enabled: string | null };
}

export type State = "all" | "partly" | "none" | "does_not_start" | "not_running" | "unknown" | "not_counted";

export interface Outlook {
  state: State;
  why: string | null;
}

export interface Instance {
  engine: string;
  name: string;
  running: boolean;
  version: string | null;
  sessions: number | null;
  max_sessions: number | null;
  huge_pages: "all" | "partly" | "none" | "unknown";
  moments: Record<"now" | "restart" | "reboot", Outlook> | null;
  demand: { needed_pages: number; page_bytes: number } | null;
  page_tables_bytes: number | null;
  segments: { size_bytes: number }[];
  chain: { link: string; state: "ok" | "broken" | "unknown"; evidence: string }[];
}

export interface Finding {
  code: string;
  name: string;
  level: Level;
  instance: string | null;
  summary: string;
  short: string;
  evidence: string[];
  fix: string[];
}

export interface Case {
  cause: number;
  symptoms: number[];
  cost: string;
  next: string;
}

export interface Check {
  host: Host;
  instances: Instance[];
  findings: Finding[];
  cases: Case[];
  to_do: string[];
  next: string | null;
  unknown: { code: string; name: string; instance: string | null; missing: string }[];
  unread: unknown[];
  summary: Record<Level, number>;
}

export interface Point {
  at: string | null;
  page_tables_bytes: number | null;
  memory_available_bytes: number | null;
  kernel_cpu: number | null;
  sessions: number | null;
  pools: { page_bytes: number; total_pages: number | null; committed_pages: number | null }[];
}

export interface History {
  most_points: number;
  points: Point[];
}

export interface Event {
  hugewise: string;
  reading: number;
  check: Check;
  point: Point | null;
}

export interface Budget {
  total_bytes: number | null;
  pools_bytes: number;
  sessions: number;
  sessions_private_bytes: number | null;
  managed_bytes: number | null;
  page_tables_bytes: number | null;
  others_bytes: number | null;
  kernel_bytes: number | null;
  watermarks_bytes: number | null;
  floor_bytes: number;
  left_bytes: number | null;
  short_bytes: number;
}

export interface Size {
  schema: "hugewise.size/1";
  fits: boolean;
  pools: { page_bytes: number; node: number | null; pages: number }[];
  forecast: {
    sessions: number;
    page_bytes: number;
    page_tables_bytes: number;
    login_seconds: number | null;
    memory_left_bytes: number | null;
  }[];
  budget: Budget;
  refusal: { reasons: string[]; short_bytes: number } | null;
}

export interface Failed {
  schema: "hugewise.error/1";
  error: string;
}
