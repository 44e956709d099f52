#!/usr/bin/env node
// The part of curl that our documents use, so that their blocks run on machines without it.
import { request } from 'node:http'
import { parseArgs } from 'node:util'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    silent: { type: 'boolean', short: 's' },
    include: { type: 'boolean', short: 'i' },
    request: { type: 'string', short: 'X' },
    header: { type: 'string', short: 'H', multiple: true },
    data: { type: 'string', short: 'd' },
  },
})
const headers = Object.fromEntries(
  (values.header ?? []).map((line) => [
    line.slice(0, line.indexOf(':')),
    line.slice(line.indexOf(':') + 1).trim(),
  ]),
)
const method = values.request ?? (values.data === undefined ? 'GET' : 'POST')
const sent = request(positionals[0], { method, headers }, (response) => {
  if (values.include) {
    const lines = Object.entries(response.headers).map(([name, value]) => `${name}: ${value}\r\n`)
    process.stdout.write(`HTTP/1.1 ${response.statusCode}\r\n${lines.join('')}\r\n`)
  }
  response.pipe(process.stdout)
})
sent.end(values.data)
