import { z } from 'zod'
import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import {
  askAboutSources,
  readAnswer,
  SOURCE_COMMAND_OPTIONS,
  SOURCE_ROW,
  type SourceCommandOption,
} from '#cli/source-access'

export const sourcesRefresh = defineCommand<SourceCommandOption>({
  name: 'sources refresh',
  summary: 'Reads the tools of a source again, now.',
  details: [
    'Connections are made anew for it, and programs started anew; calls under way end as they are.',
    'What changed upstream waits for a decision: "collet pins list".',
  ],
  positionals: [{ name: 'KEY', help: 'The source, as "collet sources" lists it.' }],
  options: SOURCE_COMMAND_OPTIONS,
  examples: ['collet sources refresh GitHub'],
  async run(args, context) {
    const [key = ''] = args.positionals
    const path = `/${encodeURIComponent(key)}/refresh`
    const answer = await askAboutSources({ method: 'POST', path, body: {} }, args, context)
    const { source } = readAnswer(z.object({ source: SOURCE_ROW }), answer)
    if (context.json) context.output.json(source)
    else {
      const waiting =
        source.waiting === 0 ? '' : `, ${source.waiting} waiting for a decision: collet pins list`
      context.output.data(`${source.key} is ${source.state}: ${source.tools} tools${waiting}`)
      if (source.reason !== null) context.output.note(source.reason)
    }
    return source.state === 'down' ? EXIT.toolFailed : EXIT.ok
  },
})
