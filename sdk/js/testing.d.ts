import type { Change, Json, Message, NewMessage, NewReply, Parser, Plugin, Query, Reply } from "./index.js";

type Type<P> = (new () => P) & { descriptor?: any };

export function setRender(render: (template: string, vars: Json) => string): void;
export function takeLog(): Array<[string, string]>;
export function configure<P extends Plugin>(type: Type<P>, config?: Json): P;
export function replyText(text: string): Reply;
export function replyCalls(...calls: Array<[string, string, string]>): Reply;
export function commands(parser: Parser, reply: Reply): string[] | string;
export function guest(type: Type<Plugin>, config?: Json): any;
export function checkFreshInstances(
  type: Type<Plugin>,
  changes: Array<Change<NewMessage>>,
  config?: Json,
): Message[][];

export class Driver {
  constructor(type: Type<Plugin>, config?: Json, answer?: (query: Query) => NewReply);
  view: Message[];
  last?: Change;
  apply(change: Change<NewMessage>): Message[];
  texts(): string[];
}
