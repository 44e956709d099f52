/**
 * Operations that list and show the tools that a caller may see, toolsets, and the usage of a tool. Schemas of policy values that other
 * modules share are declared here.
 */
import { z } from 'zod'
import {
  type AnswerOf,
  isWhole,
  json,
  named,
  operation,
  type Shape,
  texts,
  time,
  timeInQuery,
} from './operation.ts'
import { CHANGE_CLASS, CHANGE_KIND, PIN_DIFF } from './pins.ts'

export const TIER = () => z.enum(['pure', 'read', 'write', 'exec'])
export const APPROVAL = () => z.enum(['never', 'conditional', 'always'])
const HINT = () => z.enum(['low', 'medium', 'high'])
const schema = () => z.record(z.string(), json())

const CALLERS =
  'Every caller gets the tools that it may see; the start token gets those of every tenant. No credential is needed if the server needs none to call tools.'
const toolset = (text: string) => z.string().optional().describe(text)

const TOOL_SOURCE = named('AdminToolSource', () =>
  z.object({
    type: z.string(),
    state: z.enum(['starting', 'ready', 'degraded', 'down']),
    since: time().nullable(),
    reason: z.string().nullable().describe('Only for operators.'),
  }),
)

const REQUIREMENT = named('AdminRequirement', () =>
  z.object({
    kind: z.enum(['oauth', 'secret', 'user', 'scope']),
    id: z.string(),
    scopes: texts(),
    state: z
      .enum(['met', 'missing', 'spent', 'scopes', 'per_user'])
      .describe(
        'State for the caller of this operation; for the operator, whether any caller meets the requirement.',
      ),
  }),
)

const CHANGE = named('AdminChange', () =>
  z.object({
    kind: CHANGE_KIND(),
    class: CHANGE_CLASS(),
    since: time(),
    suspended: z.boolean().describe('Calls are refused until an operator decides.'),
    rejected: z.boolean(),
  }),
)

const LISTED_TOOL = named('AdminListedTool', () =>
  z.object({
    id: z.string().describe('`Toolkit.Name`.'),
    version: z.string(),
    versions: texts().optional().describe('All versions, newest first; absent if there is only one.'),
    name: z.string().describe('The name that models use.'),
    catalog_id: z.string(),
    title: z.string().optional(),
    description: z.string().describe('The first sentence.'),
    fields: texts().optional().describe('Names of the tool’s parameters.'),
    source: z.string().describe('The toolkit; for an imported tool, the key of its source.'),
    kind: z.string(),
    tags: texts().optional(),
    tier: TIER(),
    egress: z.string().optional(),
    approval: z.enum(['conditional', 'always']).optional().describe('Absent: never.'),
    approval_rule: z.literal(true).optional().describe('A rule decides which calls need approval.'),
    needs: z.array(z.int()).optional().describe('Positions in `requirements`.'),
    toolsets: texts().optional(),
    tenants: texts().optional(),
    deprecated: z.literal(true).optional(),
  }),
)

export const COUNT_TOOLS = operation({
  route: 'GET /admin/tool-count',
  access: 'callers',
  summary: 'Number of tools in the list.',
  description: 'The number of tools that `GET /admin/tools` lists for the same caller.',
  query: () => z.object({ toolset: toolset('Only the tools of this toolset.') }),
  answer: () => z.object({ count: z.int().min(0) }),
  errors: [404],
})

export const SEARCH_TOOLS = operation({
  route: 'GET /admin/tool-search',
  access: 'callers',
  summary: 'The tools that match a text, best match first.',
  description: CALLERS,
  query: () =>
    z.object({
      q: z.string().min(1).describe('A task in plain words, or a name.'),
      limit: z.string().optional().describe('Maximum number of tools: 1 to 50. Default 10.'),
      toolset: toolset('Only the tools of this toolset.'),
    }),
  answer: () =>
    z.object({
      found: z.array(
        z.object({
          id: z.string().describe('`Toolkit.Name`.'),
          name: z.string(),
          description: z.string().describe('The first sentence.'),
          unavailable: z.string().nullable().describe('Why it cannot be called now.'),
        }),
      ),
      families: z
        .array(z.object({ name: z.string(), count: z.int(), examples: texts() }))
        .describe('If nothing was found: the groups of tools that exist.'),
      text: z.string().describe('The answer that `search_tools` gives a model.'),
    }),
  errors: [404],
})
export type ToolSearchAnswer = AnswerOf<typeof SEARCH_TOOLS>

const LIST_COST = () => z.object({ tools: z.int(), bytes: z.int(), tokens: z.int() })

export const READ_TOOL_COST = operation({
  route: 'GET /admin/tool-cost',
  access: 'callers',
  summary: 'What a list of the tools costs a model, and what search mode costs.',
  description: `Tokens are counted without a model's vocabulary and may differ from it by some percent. ${CALLERS}`,
  query: () => z.object({ toolset: toolset('Only the tools of this toolset.') }),
  answer: () =>
    z.object({
      discovery: z.enum(['list', 'search']).describe('How MCP clients get these tools now.'),
      list: LIST_COST().describe(
        '`tools/list` with all tools; tokens of names, descriptions and parameters.',
      ),
      search: LIST_COST().describe('`tools/list` in search mode.'),
      each: z
        .array(z.object({ id: z.string(), name: z.string(), bytes: z.int(), tokens: z.int() }))
        .describe('The most expensive tools, at most 100.'),
    }),
  errors: [404],
})
export type ToolListCost = AnswerOf<typeof READ_TOOL_COST>

/** Its static type is `ToolListing` of the kernel, which the console and `collet tools` search. */
export const LIST_ALL_TOOLS = operation({
  route: 'GET /admin/tools',
  access: 'callers',
  summary: 'All tools in one compact answer, with the problems of each.',
  description: CALLERS,
  isTagged: true,
  query: () => z.object({ toolset: toolset('Only the tools of this toolset.') }),
  answer: () =>
    z.object({
      tools: z.array(LISTED_TOOL()),
      sources: z.record(z.string(), TOOL_SOURCE()).describe('By toolkit.'),
      requirements: z.array(REQUIREMENT()),
      changes: z.record(z.string(), CHANGE()).describe('Changes that were not accepted, by tool id.'),
    }),
  errors: [404],
})

const POLICY = () =>
  z.object({
    tier: TIER(),
    egress: z.string().nullable(),
    egress_allow: texts().nullable().describe('Local addresses that tools may reach; only for operators.'),
    replay: z.string(),
    scopes: texts(),
    tenants: texts().nullable().describe('The only tenants that the tool is for; only for operators.'),
    timeout_ms: z.int(),
    rerun_window_ms: z.int(),
    cost: z.number(),
    cost_hint: HINT().nullable(),
    latency_hint: HINT().nullable(),
    approval: APPROVAL(),
    approval_terms: z
      .object({
        by_rule: z.boolean(),
        expires_after_ms: z.int(),
        quorum: z.int(),
        required_scope: z.string().nullish(),
        self_approval: z.boolean(),
      })
      .nullable(),
    budgets: z.array(
      z.object({
        for: z.enum(['tenant', 'principal']),
        window_seconds: z.number(),
        limits: z.record(z.string(), z.number()),
      }),
    ),
  })

const TOOL = named('AdminTool', () =>
  z.object({
    id: z.string().describe('The id with its version.'),
    base: z.string(),
    version: z.string(),
    versions: z
      .array(z.object({ version: z.string(), definition_hash: z.string() }))
      .describe('Newest first.'),
    title: z.string().nullable(),
    description: z.string(),
    kind: z.string(),
    source: TOOL_SOURCE().extend({ key: z.string(), since: time() }).nullable(),
    toolkit: z.string(),
    tags: texts(),
    toolsets: texts(),
    names: z.object({
      otc: z.string(),
      mcp: z.string(),
      opentool: z.string().nullable(),
      openwop: z.string(),
    }),
    input_schema: schema(),
    output_schema: schema().nullable().describe('Null: it returns nothing.'),
    examples: z.array(z.unknown()),
    policy: POLICY(),
    keeps_state: z.boolean(),
    steps: texts(),
    requirements: z.array(
      REQUIREMENT().extend({
        connect: z.object({
          how: z.enum(['consent', 'vault', 'call', 'key']),
          says: z.string(),
          command: z.string().nullable(),
        }),
      }),
    ),
    definition_hash: z.string(),
    change: CHANGE().nullable().describe('A change by the upstream that no operator has accepted.'),
    pin: PIN_DIFF().nullable().describe('Only with the scope `admin:pins`.'),
    seen: z
      .array(
        z.object({
          tool: z.string(),
          definition_hash: z.string(),
          calls: z.int(),
          first_at: time().nullable(),
          last_at: time().nullable(),
        }),
      )
      .nullable()
      .describe('Definitions that its latest calls used; only with the scope `admin:calls`.'),
    model: z
      .object({ mcp: schema(), openai: schema(), anthropic: schema() })
      .describe('The tool as models see it.'),
  }),
)
export type ToolDetails = Shape<typeof TOOL>

export const SHOW_TOOL = operation({
  route: 'GET /admin/tools/:tool',
  access: 'callers',
  summary: 'One tool: schemas, policy, needs, names, history, and its formats for models.',
  description: CALLERS,
  parameter: 'Any of its names.',
  query: () =>
    z.object({
      version: z.string().optional().describe('Default: the newest.'),
      toolset: toolset('Look for it in this toolset.'),
    }),
  answer: () => z.object({ tool: TOOL() }),
  errors: [404],
})

const COUNTED = () => ({
  calls: z.int(),
  errors: z.int(),
  p50_ms: z.number().nullable(),
  p95_ms: z.number().nullable(),
})

export const READ_TOOL_USAGE = operation({
  route: 'GET /admin/tools/:tool/usage',
  access: 'callers',
  scope: 'admin:calls',
  summary: 'Calls, errors and durations of one tool over time.',
  parameter: 'Any of its names.',
  query: () =>
    z.object({
      since: timeInQuery().describe('Default: a day ago.'),
      until: timeInQuery().describe('Default: now.'),
      version: z.string().optional().describe('Only this version.'),
      toolset: toolset('Look for it in this toolset.'),
    }),
  answer: () =>
    z.object({
      usage: z.object({
        tool: z.string(),
        since: time(),
        step_seconds: z.int().describe('Length of an interval: whole hours, or minutes for up to six hours.'),
        ...COUNTED(),
        buckets: z.array(z.object({ at: time(), ...COUNTED() })),
        whole: isWhole(),
      }),
    }),
  errors: [404],
})
export type ToolUsage = AnswerOf<typeof READ_TOOL_USAGE>['usage']

const TOOLSET = named('AdminToolset', () =>
  z.object({
    name: z.string(),
    description: z.string().nullable(),
    include: texts().nullable(),
    exclude: texts().nullable(),
    tier: TIER().nullable(),
    path: z.string(),
    tools: texts(),
    keys: texts(),
    roles: texts(),
  }),
)
export type Toolset = Shape<typeof TOOLSET>

export const LIST_TOOLSETS = operation({
  route: 'GET /admin/toolsets',
  scope: 'admin:keys',
  summary: 'Toolsets with their tools, and the keys and roles that have them.',
  answer: () => z.object({ toolsets: z.array(TOOLSET()) }),
})
