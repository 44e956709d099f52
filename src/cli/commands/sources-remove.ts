import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { askAboutSources, SOURCE_COMMAND_OPTIONS, type SourceCommandOption } from '#cli/source-access'

export const sourcesRemove = defineCommand<SourceCommandOption>({
  name: 'sources remove',
  summary: 'Takes a source that was imported away, with its tools.',
  details: [
    'What was pinned stays known: importing the same source again does not accept what changed meanwhile.',
    'A source of the config is taken out there.',
  ],
  positionals: [{ name: 'KEY', help: 'The source, as "collet sources" lists it.' }],
  options: SOURCE_COMMAND_OPTIONS,
  examples: ['collet sources remove GitHub'],
  async run(args, context) {
    const [key = ''] = args.positionals
    await askAboutSources({ method: 'DELETE', path: `/${encodeURIComponent(key)}` }, args, context)
    if (context.json) context.output.json({ key, removed: true })
    else context.output.note(`${key} is gone; servers on the same store see it within a second.`)
    return EXIT.ok
  },
})
