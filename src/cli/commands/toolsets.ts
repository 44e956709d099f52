import { AdminClient, type AdminOption, adminOptions, isServerNamed } from '#cli/admin-client'
import { type Arguments, type Command, type CommandContext, defineCommand, EXIT } from '#cli/command'
import { renderTable } from '#cli/output'
import { hasStore, isStoreAlone, loadProject } from '#cli/store-access'
import { ConfigError } from '#config/load'
import { cleanText } from '#core/json'
import type { Store } from '#core/ports/store'
import {
  createToolsetRoutes,
  listToolsets,
  type RenderedToolset,
  type ToolsetParts,
} from '#server/admin/toolsets'
import { findKnownTools } from '#server/known-tools'

const HEADINGS = ['TOOLSET', 'TOOLS', 'AT', 'KEYS', 'ROLES', 'DESCRIPTION']

const toolsets = defineCommand<AdminOption>({
  name: 'toolsets',
  summary:
    'Lists the toolsets of the config: how many tools each has, where it is served, and who is limited to it.',
  details: [
    'Without --url it looks at the config and the store: tools of sources count as they were last accepted.',
    'KEYS and ROLES are limited to the toolset; everybody else may use it as far as their scopes go. --json lists the tools too.',
  ],
  positionals: [],
  options: adminOptions('admin:keys'),
  examples: ['collet toolsets', 'collet toolsets --json', 'collet tools --toolset crm'],
  async run(args, context) {
    const { output, json } = context
    const found = await ask(args, context)
    if (json) output.json(found)
    else if (found.length === 0)
      output.note(
        "There are no toolsets. Write some into the config: toolsets: { crm: { include: ['Crm.*'] } }",
      )
    else for (const line of renderTable(HEADINGS, found.map(cellsOf), output.width)) output.data(line)
    return EXIT.ok
  },
})

async function ask(
  args: Arguments<AdminOption>,
  context: CommandContext,
): Promise<readonly RenderedToolset[]> {
  if (isStoreAlone(args))
    throw new ConfigError([
      {
        severity: 'error',
        message: 'Toolsets are in the config. Leave --store out, or name its --config too.',
      },
    ])
  if (!isServerNamed(args) && !(await hasStore(args, context))) {
    const parts = await partsOf(args, context, undefined)
    return listToolsets(parts, parts.apiKeys)
  }
  const client = new AdminClient(args, context, {
    async onStore({ store, access }) {
      const parts = await partsOf(args, context, store)
      return createToolsetRoutes(() => parts, store.keys, access)
    },
  })
  const { toolsets: found } = await client.request<Answer>(
    { method: 'GET', path: '/admin/toolsets' },
    'toolsets',
  )
  return found
}

interface Answer {
  readonly toolsets: readonly RenderedToolset[]
}

async function partsOf(
  args: Arguments<AdminOption>,
  context: CommandContext,
  store: Store | undefined,
): Promise<ToolsetParts> {
  const { loaded, tools: own } = await loadProject(args.text('config'), context)
  const { sources, toolsets: written, auth } = loaded.config
  const { tools } = await findKnownTools(sources, own, store)
  return {
    tools,
    toolsets: new Map(Object.entries(written)),
    roles: new Map(Object.entries(auth.roles)),
    apiKeys: auth.apiKeys,
  }
}

const MOST_NAMED = 3

function cellsOf({ name, description, tools, path, keys, roles }: RenderedToolset): readonly string[] {
  return [name, String(tools.length), path, listed(keys), listed(roles), cleanText(description ?? '')]
}

/** Thirty teams are too many for a cell. */
function listed(names: readonly string[]): string {
  const more = names.length - MOST_NAMED
  return [...names.slice(0, MOST_NAMED), ...(more > 0 ? [`and ${more} more`] : [])].join(', ')
}

export const COMMANDS: readonly Command[] = [toolsets]
