// In the place of a server that speaks to the dashboard: one reading of a captured host, and an hour before it.
{
  const begin = Date.parse("2026-11-21T08:00:00Z");
  const point = (it) => ({
    at: new Date(begin + it * 60_000).toISOString(),
    page_tables_bytes: (1 + it / 15) * 2 ** 30,
    memory_available_bytes: (12 - it / 6) * 2 ** 30,
    kernel_cpu: it % 10 === 0 ? 0.4 : 0.05,
    sessions: 20 + it,
    pools: [],
  });
  const points = Array.from({ length: 60 }, (_, it) => point(it));
  const answers = { history: { most_points: 1440, points }, size: SIZE };
  window.fetch = async (address) => {
    const name = new URL(address, "http://localhost").pathname.split("/").pop();
    return { ok: true, json: async () => answers[name] };
  };
  window.EventSource = class {
    addEventListener(kind, listener) {
      const data = JSON.stringify({ hugewise: "0.0.0", reading: 1, check: CHECK, point: points.at(-1) });
      if (kind === "open" || kind === "reading") setTimeout(() => listener({ data }));
    }
  };
}
