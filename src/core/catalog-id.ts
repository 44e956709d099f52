import { describeValue } from './describe-value.ts'
import type { Report } from './finding.ts'
import type { SourceKind } from './tool.ts'

const LOCAL = '(?:[A-Za-z0-9._/-]|%[0-9A-Fa-f]{2})+'
const LABEL = '[a-z][a-z0-9-]*'
const LONGEST = 256

/** openwop §7.1: which ids a source's tools may have. */
const FORMS = {
  'node-pack': { pattern: new RegExp(`^openwop:${LOCAL}$`), example: 'openwop:Toolkit.Name' },
  workflow: { pattern: new RegExp(`^workflow:${LOCAL}$`), example: 'workflow:daily-report' },
  mcp: { pattern: new RegExp(`^mcp:[A-Za-z0-9_-]+\\.${LOCAL}$`), example: 'mcp:github.create_issue' },
  connector: { pattern: new RegExp(`^connector:${LOCAL}$`), example: 'connector:slack.post' },
  'host-extension': {
    pattern: new RegExp(`^(?:x-host-${LABEL}-${LABEL}|${LABEL}\\.${LABEL}:${LOCAL})$`),
    example: 'x-host-acme-shell',
  },
} satisfies Record<SourceKind, { readonly pattern: RegExp; readonly example: string }>

/** What stands before the name of a tool that was given no id. */
const PREFIXES: Partial<Record<SourceKind, string>> = { 'node-pack': 'openwop:', workflow: 'workflow:' }

/** The openwop id of a tool: as written, or `openwop:Toolkit.Name` for code and `workflow:Toolkit.Name` for workflows. */
export function readCatalogId(
  written: unknown,
  base: string,
  source: SourceKind,
  report: Report,
): string | undefined {
  const prefix = PREFIXES[source]
  const id = written === undefined && prefix !== undefined ? `${prefix}${base}` : written
  const { pattern, example } = FORMS[source]
  if (typeof id === 'string' && id.length <= LONGEST && pattern.test(id)) return id
  const rule = `at most ${LONGEST} characters; others than A-Z a-z 0-9 . _ - / are percent-encoded`
  report(
    'catalogId',
    `Is ${describeValue(id)}.`,
    `Write an id like \`${example}\` for a tool of source ${source} (${rule}).`,
  )
  return undefined
}
