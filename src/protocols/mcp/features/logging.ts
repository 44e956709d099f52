import { isJsonObject } from '#kernel/base/json'
import type { CallRequest } from '#kernel/call/call'
import { type ClientMessage, MESSAGE_LEVELS, type MessageLevel } from '#kernel/tool/tool'
import { JSON_RPC_CODES } from '#protocols/json-rpc'
import { encodeNotification, errorAnswer, isMessageLevel, resultAnswer } from '#protocols/mcp/codec-message'
import type { McpExchange, McpFeature } from '#protocols/mcp/exchange'
import { LEGACY_REVISIONS, TRAITS } from '#protocols/mcp/wire'

/*
 * Log messages (`notifications/message`) of the tools that a client calls: from `ctx.message`, and from MCP servers behind a tool.
 * Revisions with sessions set their level with `logging/setLevel`, the newest one in each request (MCP-87, MCP-190 to MCP-192).
 * `methods.ts` lists the feature; `tool-calls.ts` adds `messagesFor` to each call.
 * Invariant: a message goes only to the client whose call it belongs to, while that call runs.
 */

export function loggingFeature(): McpFeature {
  return {
    capabilities: { logging: {} },
    methods: [
      [
        'logging/setLevel',
        LEGACY_REVISIONS,
        async (params, { id, setLogLevel }) => {
          const level = isJsonObject(params) ? params.level : undefined
          if (!isMessageLevel(level)) {
            const message = `params.level must be one of ${MESSAGE_LEVELS.join(', ')}.`
            return errorAnswer(id, { code: JSON_RPC_CODES.badParams, message })
          }
          await setLogLevel?.(level)
          return resultAnswer(id, '{}')
        },
      ],
    ],
  }
}

/** The members of a call request that send the tool's messages to the client; `undefined` if it gets none. */
export function messagesFor({
  revision,
  logLevel,
  channel,
}: McpExchange): Pick<CallRequest, 'onMessage' | 'messageLevel'> | undefined {
  if (!channel.canSend || (logLevel === undefined && !TRAITS[revision].logsUnasked)) return undefined
  const onMessage = ({ level, data, logger }: ClientMessage): void => {
    if (logLevel !== undefined && rankOf(level) < rankOf(logLevel)) return
    const params = { level, ...(logger === undefined ? {} : { logger }), data }
    channel.send(encodeNotification('notifications/message', params), 'notification')
  }
  return { onMessage, messageLevel: logLevel ?? 'any' }
}

function rankOf(level: MessageLevel): number {
  return MESSAGE_LEVELS.indexOf(level)
}
