import { defineConfig } from 'collet'
import { gmailTools } from './services/gmail.ts'
import { smsTools } from './services/sms.ts'
import * as calculator from './tools/calculator.ts'
import * as doorbell from './tools/doorbell.ts'
import * as guide from './tools/guide.ts'
import * as notebook from './tools/notebook.ts'
import * as system from './tools/system.ts'

const { GMAIL_BASE_URL, TWILIO_BASE_URL } = process.env

/** The tools of the Open Tool Calling documents: `npm start` serves them on http://127.0.0.1:4100. */
export default defineConfig({
  tools: [
    ...Object.values(calculator),
    ...Object.values(doorbell),
    ...Object.values(guide),
    ...Object.values(notebook),
    ...Object.values(system),
    ...gmailTools({ baseUrl: GMAIL_BASE_URL }),
    ...smsTools({
      baseUrl: TWILIO_BASE_URL,
      accountSid: process.env.TWILIO_ACCOUNT_SID,
      from: process.env.TWILIO_FROM,
    }),
  ],
  // Stand-ins for the services may run on this machine.
  egress: { allow: [GMAIL_BASE_URL, TWILIO_BASE_URL].flatMap((url) => URL.parse(url ?? '')?.host ?? []) },
  toolkits: {
    Calculator: { description: 'A toolkit for performing calculations.' },
    Doorbell: { description: 'Rings the doorbells of a house.' },
    Notebook: { description: 'A private SQL database for each session.' },
    System: { description: 'Facts about the machine the server runs on.' },
    Gmail: { description: 'Reads mail in Gmail.' },
    SMS: { description: 'Sends text messages through Twilio.' },
  },
})
