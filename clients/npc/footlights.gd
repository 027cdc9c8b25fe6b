# Godot 4: characters that speak, from `footlights npc`. Add this node to a scene; call act("guard", "greet").
# Every character has a player of its own, so that they can stand in different places: see `voice_of`.
extends Node

signal line_started(character: String, text: String)
signal word_spoken(character: String, word: String)  # for subtitles and mouths, when it is heard
signal line_cut(character: String, heard: String)

@export var url := "ws://127.0.0.1:8061"

const HEADER_BYTES := 8
const HEARD_EVERY_S := 0.1

var _socket := WebSocketPeer.new()
var _rate := 24000
var _voices := {}  # character -> Voice
var _by_index := []
var _since_heard := 0.0


class Voice:
	var player := AudioStreamPlayer.new()
	var playback: AudioStreamGeneratorPlayback
	var line := -1
	var waiting := PackedFloat32Array()
	var given := 0  # samples handed to the player
	var words := []

	func begin(number: int, rate: int) -> void:
		silence()
		line = number
		var stream := AudioStreamGenerator.new()
		stream.mix_rate = rate
		stream.buffer_length = 0.2
		player.stream = stream
		player.play()
		playback = player.get_stream_playback()

	func silence() -> void:
		player.stop()
		playback = null
		line = -1
		waiting = PackedFloat32Array()
		given = 0
		words = []

	# The device gets a fifth of a second at a time, so that what was cut is not heard.
	func feed() -> void:
		if playback == null:
			return
		var count: int = min(playback.get_frames_available(), waiting.size())
		for i in count:
			playback.push_frame(Vector2(waiting[i], waiting[i]))
		waiting = waiting.slice(count)
		given += count

	func heard_ms(rate: int) -> float:
		if playback == null:
			return 0.0
		var buffered: int = int(0.2 * rate) - playback.get_frames_available()
		return 1000.0 * max(0, given - buffered) / rate


func _ready() -> void:
	_socket.connect_to_url(url)


func act(character: String, action: String) -> void:
	_send({"type": "act", "character": character, "action": action})


# The player node of a character: move it, or put an AudioStreamPlayer3D in its place.
func voice_of(character: String) -> AudioStreamPlayer:
	return _voices[character].player


func _process(delta: float) -> void:
	_socket.poll()
	while _socket.get_available_packet_count() > 0:
		var packet := _socket.get_packet()
		if _socket.was_string_packet():
			_receive(JSON.parse_string(packet.get_string_from_utf8()))
		else:
			_receive_audio(packet)
	_since_heard += delta
	for character in _voices:
		var voice: Voice = _voices[character]
		voice.feed()
		var ms := voice.heard_ms(_rate)
		while voice.words.size() > 0 and voice.words[0]["start_ms"] <= ms:
			word_spoken.emit(character, voice.words.pop_front()["text"])
		if _since_heard >= HEARD_EVERY_S and voice.line >= 0 and ms > 0.0:
			_send({"type": "heard", "character": character, "line": voice.line, "ms": ms})
	if _since_heard >= HEARD_EVERY_S:
		_since_heard = 0.0


func _receive(message: Dictionary) -> void:
	match message["type"]:
		"scene":
			_rate = int(message["sample_rate"])
			for entry in message["characters"]:
				var voice := Voice.new()
				add_child(voice.player)
				_voices[entry["name"]] = voice
				_by_index.append(voice)
		"line":
			_voices[message["character"]].begin(int(message["line"]), _rate)
			line_started.emit(message["character"], message["text"])
		"words":
			# A word may come again with better times: the later one counts.
			var voice: Voice = _voices[message["character"]]
			for word in message["words"]:
				voice.words = voice.words.filter(func(known): return known["start_ms"] != word["start_ms"])
				voice.words.append(word)
		"cut":
			_voices[message["character"]].silence()
			line_cut.emit(message["character"], message["heard"])
		"problem":
			push_warning(message["message"])


func _receive_audio(packet: PackedByteArray) -> void:
	var voice: Voice = _by_index[packet.decode_u16(0)]
	if packet.decode_u16(2) != voice.line:
		return  # of a line that was cut
	for offset in range(HEADER_BYTES, packet.size(), 2):
		voice.waiting.append(packet.decode_s16(offset) / 32768.0)


func _send(message: Dictionary) -> void:
	if _socket.get_ready_state() == WebSocketPeer.STATE_OPEN:
		_socket.send_text(JSON.stringify(message))
