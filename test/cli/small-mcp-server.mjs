// An MCP server in few lines: its name and its tools are its arguments. Tools that begin with `read` say that they only read, those that begin with `add` that they only add to their own data.
const [, , name, ...tools] = process.argv
const say = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`)
process.stderr.write(`proxy ${process.env.HTTPS_PROXY} other ${process.env.OTHER}\n`)
let rest = ''
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\n')
  rest = lines.pop()
  for (const { id, method } of lines.map((line) => JSON.parse(line))) {
    if (name === 'silent') continue
    if (method === 'initialize')
      say(id, {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name, version: '1' },
      })
    else if (method === 'tools/list')
      say(id, {
        tools: tools.map((tool) => ({
          name: tool,
          description: `Does ${tool}`,
          inputSchema: { type: 'object' },
          annotations: {
            readOnlyHint: tool.startsWith('read'),
            ...(tool.startsWith('add') ? { destructiveHint: false, openWorldHint: false } : {}),
          },
        })),
      })
    else if (id !== undefined)
      process.stdout.write(
        `${JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } })}\n`,
      )
  }
})
