import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { requestJson } from '#cli/http-json'
import { readServerAddress, SERVER_OPTIONS } from '#cli/server-address'
import { cleanText } from '#core/json'

export const callsCancel = defineCommand<'url' | 'key'>({
  name: 'calls cancel',
  summary: 'Asks a server to stop a running call of yours.',
  details: ['A call that already ended stays as it is. A write that had begun may have taken effect.'],
  positionals: [{ name: 'CALL_ID', help: 'The id the call was made with.' }],
  options: SERVER_OPTIONS,
  examples: ['collet calls cancel ring-1', 'collet calls cancel ring-1 --url https://tools.example.com'],
  async run(args, context) {
    const { output, json, services } = context
    const [callId = ''] = args.positionals
    const { url, apiKey } = readServerAddress(args, context)
    const path = `${url}/calls/${encodeURIComponent(callId)}`
    const view = await requestJson({ method: 'DELETE', url: path, credential: apiKey }, services.fetch)
    if (json) output.json(view)
    else
      output.data(`${callId} is ${typeof view.state === 'string' ? cleanText(view.state) : 'asked to stop'}.`)
    return EXIT.ok
  },
})
